// swift-tools-version: 6.2
import PackageDescription

let package = Package(
  name: "countdownd-examples",
  dependencies: [.package(name: "countdownd", path: "..")],
  targets: [
    .executableTarget(
      name: "weak-timers",
      dependencies: [.product(name: "DispatchTimers", package: "countdownd")])
  ],
  swiftLanguageModes: [.v6]
)
