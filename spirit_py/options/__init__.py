"""Every option, declared once: command line, help, configuration file and library are derived."""
