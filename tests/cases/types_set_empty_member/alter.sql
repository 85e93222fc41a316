MODIFY other SET('','q'), ADD COLUMN v INT
