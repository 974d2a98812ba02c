"""Refusals over HTTP, as RFC 9457 tells them: what they are, which there are, and which errors become which.

They stand below everything that speaks HTTP, so that every route, middleware and event stream tells them alike.
"""
