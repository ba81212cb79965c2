#if canImport(Glibc)
  import Glibc
#elseif canImport(Musl)
  import Musl
#else
  import Darwin
#endif

// Arrays that only ever grow, and can be large. `realloc` moves large blocks by moving pages, not
// bytes: growing costs next to nothing, and there is never a second copy.

func allocateMemory<T: BitwiseCopyable>(_ count: Int) -> UnsafeMutablePointer<T> {
  guard let memory = malloc(count * MemoryLayout<T>.stride) else { fatalError("out of memory") }
  return memory.bindMemory(to: T.self, capacity: count)
}

func growMemory<T: BitwiseCopyable>(
  _ base: UnsafeMutablePointer<T>, to count: Int
) -> UnsafeMutablePointer<T> {
  let bytes = count * MemoryLayout<T>.stride
  guard let memory = realloc(base, bytes) else { fatalError("out of memory") }
  adviseHugePages(memory, bytes)
  return memory.bindMemory(to: T.self, capacity: count)
}

func freeMemory<T>(_ base: UnsafeMutablePointer<T>) { free(base) }

/// Asks for pages of 2 MiB beneath large arrays: timers are touched in any order, and looking up
/// small pages would cost about as much as the memory itself. Only advice: it may be refused.
private func adviseHugePages(_ memory: UnsafeMutableRawPointer, _ bytes: Int) {
  #if os(Linux)
    guard bytes >= 4 << 20 else { return }
    let page = 4_096
    let start = (Int(bitPattern: memory) + page - 1) & ~(page - 1)
    let length = Int(bitPattern: memory) + bytes - start
    madvise(UnsafeMutableRawPointer(bitPattern: start), length, 14)  // MADV_HUGEPAGE
  #endif
}
