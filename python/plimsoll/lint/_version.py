"""The version that meson.build has.  make docs rewrites it."""
VERSION = "0.2.0"
