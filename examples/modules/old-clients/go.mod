module oldclients

go 1.24

require peal v0.0.0

replace peal => ../../../sdk/go
