"""PostgreSQL below the seam. Needs the extra `counterfoil[postgres]`; only `address` goes without."""
