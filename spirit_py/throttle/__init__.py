"""Throttling: what holds the work back so that the server's other users hardly notice it.

A *throttler* looks at one thing and returns a reason to wait, or an empty text. Work asks
:mod:`spirit_py.pace` before it begins; what runs is not interrupted.
"""
