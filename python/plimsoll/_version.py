"""The version that meson.build has.  make docs rewrites it."""
__version__ = "0.2.0"
