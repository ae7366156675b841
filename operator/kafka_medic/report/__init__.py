"""Pages for people: typed data in, one self-contained HTML file out. Pure, and without Arrow."""
