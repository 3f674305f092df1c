"""Directions made from what is public: learned from a sample of people, or made from tables of attributes."""
