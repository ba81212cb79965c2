// swift-tools-version: 6.2
import PackageDescription

// A separate package, so that users of the daemon or its libraries neither fetch nor build it.
let package = Package(
  name: "Benchmarks",
  dependencies: [
    .package(name: "countdownd", path: ".."),
    .package(url: "https://github.com/apple/swift-nio", from: "2.100.0"),
  ],
  targets: [
    .systemLibrary(name: "CBenchmarks"),
    // The lower bound that the daemon is compared with, so it runs without run-time checks.
    .executableTarget(
      name: "bare-loop",
      dependencies: ["CBenchmarks", .product(name: "TimerWheel", package: "countdownd")],
      swiftSettings: [.unsafeFlags(["-Ounchecked", "-enforce-exclusivity=unchecked"])]),
    .executableTarget(
      name: "cancelled-calls",
      dependencies: [.product(name: "CountdownClient", package: "countdownd")]),
    .executableTarget(
      name: "client-calls",
      dependencies: [.product(name: "CountdownClient", package: "countdownd")]),
    .executableTarget(
      name: "timer-bench",
      dependencies: [
        "CBenchmarks",
        .product(name: "TimerWheel", package: "countdownd"),
        .product(name: "DispatchTimers", package: "countdownd"),
        .product(name: "NIOCore", package: "swift-nio"),
        .product(name: "NIOPosix", package: "swift-nio"),
      ]),
  ],
  swiftLanguageModes: [.v6]
)
