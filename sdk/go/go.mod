module peal

go 1.24
