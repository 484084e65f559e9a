def register_environments():
    return []
