import DispatchTimersTesting
import Foundation

extension TestClock {
  func date(after seconds: Double) -> Date {
    Date(timeIntervalSince1970: Double(wallTime.since1970.components.seconds) + seconds)
  }
}
