// swift-tools-version: 6.2
import PackageDescription

// A package of its own, so that nobody who uses the daemon or its libraries fetches or builds it.
let package = Package(
  name: "Benchmarks",
  dependencies: [
    .package(name: "countdownd", path: ".."),
    .package(url: "https://github.com/apple/swift-nio", from: "2.100.0"),
  ],
  targets: [
    .systemLibrary(name: "CBenchmarks"),
    // What the daemon is compared with, so it may leave out what the compiler would check.
    .executableTarget(
      name: "bare-loop",
      dependencies: ["CBenchmarks", .product(name: "TimerWheel", package: "countdownd")],
      swiftSettings: [.unsafeFlags(["-Ounchecked", "-enforce-exclusivity=unchecked"])]),
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
