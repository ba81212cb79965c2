module middleware

go 1.19

require countdownd v0.0.0

replace countdownd => ../../../../Clients/Go
