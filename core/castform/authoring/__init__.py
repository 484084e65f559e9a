"""The author kit: a new plugin from a template, and a check of one before anybody installs it."""
