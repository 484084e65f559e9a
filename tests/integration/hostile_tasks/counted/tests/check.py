import pathlib
import sys

sys.exit(pathlib.Path("/app/answer.txt").read_text().strip() != "42")
