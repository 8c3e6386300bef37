"""The dashboard's widgets; each paints lines and repaints only the cells that changed."""
