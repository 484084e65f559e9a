import castform_env_import_error.first  # works, and must not stay behind
import cuda_thing  # noqa: F401
