// Go's runtime timers: time.AfterFunc, Stop and Reset on a 4-ary heap per processor.
//
// Runs on one processor (GOMAXPROCS 1), so that all timers are in one heap and no other thread
// takes them.
package main

import (
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"
)

const hour = 3600000

var state, checksum uint64

func splitmix64() uint64 {
	state += 0x9e3779b97f4a7c15
	z := state
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}

func randomBelow(bound uint64) uint32 { return uint32((splitmix64() >> 32) * bound >> 32) }

func note(value uint32) uint32 {
	checksum = (checksum ^ uint64(value)) * 0x100000001b3
	return value
}

// Generates the random input of the workloads: see Mix.swift.
func makeMix(n int, seed uint64) (delays, order, picks []uint32) {
	state, checksum = seed, 0xcbf29ce484222325
	delays, order, picks = make([]uint32, n), make([]uint32, n), make([]uint32, 2*n)
	for i := range delays {
		delays[i] = note(1 + randomBelow(hour))
	}
	for i := range order {
		order[i] = uint32(i)
	}
	for i := n - 1; i > 0; i-- {
		j := note(randomBelow(uint64(i) + 1))
		order[i], order[j] = order[j], order[i]
	}
	for i := range picks {
		picks[i] = note(randomBelow(uint64(n)))
	}
	return
}

var workload string
var quiet bool
var fired int64

func onTimer() { atomic.AddInt64(&fired, 1) }

func report(n int, phase string, taken time.Duration, operations int, bytes float64) {
	if quiet {
		return
	}
	text := "-"
	if bytes > 0 {
		text = strconv.FormatFloat(bytes, 'f', 1, 64)
	}
	fmt.Printf("go\t%s\t%s\t%d\t%s\t%.1f\t%d\t%s\t%x\n",
		strings.TrimPrefix(runtime.Version(), "go"), workload, n, phase,
		float64(taken.Nanoseconds())/float64(operations), peakKiB(), text, checksum)
}

// Returns the peak resident memory. Getrusage would include the parent's peak.
func peakKiB() (kib int) {
	status, _ := os.ReadFile("/proc/self/status")
	for _, line := range strings.Split(string(status), "\n") {
		if n, _ := fmt.Sscanf(line, "VmHWM: %d", &kib); n == 1 {
			break
		}
	}
	return
}

// Returns the live heap in bytes, after a collection.
func heap() uint64 {
	var stats runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&stats)
	return stats.HeapAlloc
}

func fail(what string) {
	fmt.Fprintln(os.Stderr, "go:", what)
	os.Exit(1)
}

// Sleeps without the runtime's knowledge, so that it cannot run timers in the meantime. The
// runtime's signals interrupt the sleep, but cannot preempt the goroutine here.
func blockUntil(deadline time.Time) {
	const clockRealtime, absolute = 0, 1
	span := syscall.NsecToTimespec(deadline.UnixNano())
	for {
		_, _, errno := syscall.RawSyscall6(syscall.SYS_CLOCK_NANOSLEEP,
			clockRealtime, absolute, uintptr(unsafe.Pointer(&span)), 0, 0, 0)
		if errno != syscall.EINTR {
			return
		}
	}
}

func runCancel(n int, delays, order []uint32) {
	timers := make([]*time.Timer, n)
	before := heap()
	start := time.Now()
	for i, delay := range delays {
		timers[i] = time.AfterFunc(hour*time.Millisecond+time.Duration(delay)*time.Millisecond, onTimer)
	}
	armed := time.Now()
	bytes := float64(int64(heap())-int64(before)) / float64(n)
	middle := time.Now()
	for _, i := range order {
		timers[i].Stop()
	}
	end := time.Now()
	report(n, "schedule", armed.Sub(start), n, bytes)
	report(n, "cancel", end.Sub(middle), n, 0)
	runtime.KeepAlive(timers)
}

// Measures expiring. The hour is a thousand times shorter, and begins after the time for arming.
func runExpire(n int, delays []uint32) {
	timers := make([]*time.Timer, n)
	margin := 300*time.Millisecond + time.Duration(n)*2*time.Microsecond
	runtime.GC()
	start := time.Now()
	for i, delay := range delays {
		timers[i] = time.AfterFunc(margin+time.Duration(delay)*time.Microsecond, onTimer)
	}
	armed := time.Now()
	if armed.Sub(start) > margin || atomic.LoadInt64(&fired) > 0 {
		fail("arming took longer than the time set aside for it")
	}
	due := armed.Add(margin + hour*time.Microsecond + 10*time.Millisecond)
	blockUntil(due)
	for atomic.LoadInt64(&fired) < int64(n) {
		runtime.Gosched()
	}
	end := time.Now()
	report(n, "schedule", armed.Sub(start), n, 0)
	report(n, "expire", end.Sub(due), n, 0)
}

func runReschedule(n int, picks []uint32) {
	timers := make([]*time.Timer, n)
	for i := range timers {
		timers[i] = time.AfterFunc(time.Minute, onTimer)
	}
	start := time.Now()
	for _, i := range picks {
		timers[i].Reset(time.Minute)
	}
	end := time.Now()
	if atomic.LoadInt64(&fired) > 0 {
		fail("connections timed out")
	}
	report(n, "reschedule", end.Sub(start), 2*n, 0)
	for i := range timers {
		timers[i].Stop()
	}
}

func run(n int, seed uint64, workload string) {
	delays, order, picks := makeMix(n, seed)
	defer runtime.KeepAlive([][]uint32{delays, order, picks})
	atomic.StoreInt64(&fired, 0)
	switch workload {
	case "cancel":
		runCancel(n, delays, order)
	case "expire", "same":
		// All due timers start a goroutine before the first one runs: 2 KiB each.
		if n > 1000000 {
			return
		}
		if workload == "same" {
			for i := range delays {
				delays[i] = 1
			}
		}
		runExpire(n, delays)
	case "reschedule":
		runReschedule(n, picks)
	case "hour", "next":
		// Go has no virtual time and no public call for the next deadline.
	default:
		fail("no such workload")
	}
}

func main() {
	if len(os.Args) != 5 {
		fail("usage: go-timers WORKLOAD N SEED ROUND")
	}
	runtime.GOMAXPROCS(1)
	workload = os.Args[1]
	n, _ := strconv.Atoi(os.Args[2])
	seed, _ := strconv.ParseUint(os.Args[3], 10, 64)
	round, _ := strconv.ParseUint(os.Args[4], 10, 64)
	warmUp := 10000
	if n < warmUp {
		warmUp = n
	}
	quiet = true
	run(warmUp, seed+round, "cancel")
	quiet = false
	run(n, seed+round, workload)
}
