module devices

go 1.19
