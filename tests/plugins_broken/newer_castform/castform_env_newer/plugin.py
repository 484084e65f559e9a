raise AssertionError("a plugin that needs another castform must not be imported")
