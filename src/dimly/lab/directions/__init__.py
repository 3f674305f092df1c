"""Directions made from what is public: learned from a sample of people, or from tables of attributes."""
