"""From any source to rows of integers: files, databases, frames and matrices."""
