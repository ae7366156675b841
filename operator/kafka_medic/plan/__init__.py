"""Where replicas should go: a problem, a plan that is proven, and the waves in which to carry it out."""
