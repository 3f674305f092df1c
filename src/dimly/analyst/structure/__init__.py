"""What people have in common: points, denoising, evidence of structure, segments."""
