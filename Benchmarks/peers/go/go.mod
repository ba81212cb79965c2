module go-timers

go 1.19
