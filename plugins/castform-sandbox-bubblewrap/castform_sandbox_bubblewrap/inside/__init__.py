"""What runs as the first process of a box. Standard library only; nothing of castform is there.

The host speaks to it over one inherited socket; when that closes, the first process ends, and the
kernel kills everything else of its process namespace with it.
"""
