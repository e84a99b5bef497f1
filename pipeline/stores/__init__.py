"""Raw and clean folders in a shared object store, by fsspec URLs (``s3://…``). Needs the extra ``[store]``."""
