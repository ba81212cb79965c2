module countdownd.org/go/countdownd

go 1.19
