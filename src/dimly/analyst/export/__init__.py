"""Releases in other tools: frames and files, FAISS, PostgreSQL."""
