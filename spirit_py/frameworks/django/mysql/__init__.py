"""The engine ``spirit_py.frameworks.django.mysql``: Django's MySQL, large tables online."""
