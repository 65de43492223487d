"""The version, for the package, the scope of its records, and its user agent."""

VERSION = "0.1.0"
