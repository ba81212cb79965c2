import CountdownClient

let client = try await Client.connect(path: "/tmp/countdownd.sock")
print(try await client.ping())
