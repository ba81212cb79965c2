// swift-tools-version: 6.2
import PackageDescription

let package = Package(
  name: "countdownd-examples",
  dependencies: [
    .package(name: "countdownd", path: ".."),
    .package(url: "https://github.com/swhitty/FlyingFox", from: "0.27.1"),
  ],
  targets: [
    .executableTarget(
      name: "weak-timers",
      dependencies: [.product(name: "DispatchTimers", package: "countdownd")]),
    .executableTarget(
      name: "view-controllers",
      dependencies: [.product(name: "CountdownClient", package: "countdownd")]),
    .executableTarget(
      name: "login-service",
      dependencies: [
        .product(name: "CountdownClient", package: "countdownd"), "FlyingFox",
      ],
      path: "login/swift", exclude: ["README.md"]),
  ],
  swiftLanguageModes: [.v6]
)
