package countdownhttp

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"regexp"
	"strconv"
	"strings"

	"countdownd"
)

// Limit is a rate limit of requests, or several.
type Limit struct {
	// Name is that of the handler; handlers with the same name share a limit. It is needed unless there
	// are named limits.
	Name string
	// Burst tells how many requests may come at once, and Rate how many in the long run: "5/10m".
	Burst int64
	Rate  string
	// Named has limits of the configuration instead: a request takes from all or none.
	Named []NamedLimit
	// Key tells whose limit it is. nil: the address's.
	Key func(*http.Request) string
	// Address tells the address of the client. nil: that of the connection, which is the proxy's if there
	// is one.
	Address func(*http.Request) string
	// Cost tells how much a request uses, 1 or more. CostOf tells it of each request. 1 without them.
	Cost   int64
	CostOf func(*http.Request) int64
	// Skip tells which requests use nothing, and are not refused.
	Skip func(*http.Request) bool
	// Fail tells what happens while the daemon cannot be asked; Open if it is not given. Take Closed
	// where a limit protects, as at a login.
	Fail Fail
	// OnError gets each error of the daemon.
	OnError func(error, *http.Request)
}

// NamedLimit is a limit of the configuration.
type NamedLimit struct {
	Name string
	// Key tells whose limit it is. nil: what Key of the Limit says.
	Key func(*http.Request) string
	// IsShared tells that it is one limit for all.
	IsShared bool
}

var rates = regexp.MustCompile(`^0*[1-9]\d*/[0-9a-z.]+$`)

func (limit Limit) check() {
	switch {
	case len(limit.Named) > 0:
		if limit.Burst != 0 || limit.Rate != "" {
			panic("countdownhttp: a named limit has its Burst and Rate in the configuration")
		}
		for _, one := range limit.Named {
			named(one.Name)
		}
	case limit.Burst < 1:
		panic(fmt.Sprintf("countdownhttp: Burst is at least 1, not %d; or limits are Named", limit.Burst))
	case !rates.MatchString(limit.Rate):
		panic(fmt.Sprintf("countdownhttp: Rate is a count and a time, such as \"5/10m\", not %q", limit.Rate))
	default:
		named(limit.Name)
	}
	if limit.Cost < 0 || limit.Burst > 0 && limit.Cost > limit.Burst {
		panic(fmt.Sprintf("countdownhttp: Cost is 1 to Burst, not %d", limit.Cost))
	}
}

// Throttle limits requests: 429 with RateLimit and Retry-After. It panics if the limit is wrong.
func Throttle(client *countdownd.Client, limit Limit, next http.Handler) http.Handler {
	limit.check()
	what := limit.Name
	if what == "" {
		what = limit.Named[0].Name
	}
	failing := newFailing("the limit "+what, limit.Fail, Open, limit.OnError)
	return http.HandlerFunc(func(writer http.ResponseWriter, request *http.Request) {
		if limit.Skip != nil && limit.Skip(request) {
			next.ServeHTTP(writer, request)
			return
		}
		answer, err := limit.take(client, request)
		switch {
		case err != nil:
			if failing.failed(err, writer, request) {
				next.ServeHTTP(writer, request)
			}
		case answer.IsRefused():
			setHeaders(writer.Header(), answer)
			http.Error(writer, "Too many requests.", http.StatusTooManyRequests)
		default:
			setHeaders(writer.Header(), answer)
			next.ServeHTTP(writer, request)
		}
	})
}

func (limit Limit) take(client *countdownd.Client, request *http.Request) (*countdownd.ThrottleAnswer, error) {
	keys, err := limit.keys(request)
	if err != nil {
		return nil, err
	}
	options := countdownd.ThrottleTakeOptions{Burst: limit.Burst, Rate: limit.Rate, Cost: limit.Cost}
	if limit.CostOf != nil {
		if options.Cost = limit.CostOf(request); options.Cost < 1 {
			return nil, mistake("CostOf gave %d", options.Cost)
		}
	}
	return client.Throttle.Take(request.Context(), keys[0], options, keys[1:]...)
}

func (limit Limit) keys(request *http.Request) ([]string, error) {
	if len(limit.Named) == 0 {
		key, err := limit.text("Key", limit.Key, request)
		return []string{keyOf(limit.Name, key)}, err
	}
	keys := make([]string, len(limit.Named))
	for index, one := range limit.Named {
		keys[index] = one.Name + ":"
		if one.IsShared {
			continue
		}
		what, function := "Key", limit.Key
		if one.Key != nil {
			what, function = "Key of "+one.Name, one.Key
		}
		key, err := limit.text(what, function, request)
		if err != nil {
			return nil, err
		}
		keys[index] += key
	}
	return keys, nil
}

// text returns what a key function gives, or the address; an error if that is nothing.
func (limit Limit) text(what string, function func(*http.Request) string, request *http.Request) (string, error) {
	if function != nil {
		if key := function(request); key != "" {
			return key, nil
		}
		return "", mistake("a limit needs a key, and the function %s gave none", what)
	}
	address := limit.Address
	if address == nil {
		address = addressOf
	}
	if key := network(address(request)); key != "" {
		return key, nil
	}
	return "", mistake("a limit needs a key, and the client has no address: give Address or Key")
}

func mistake(format string, words ...any) error {
	return &countdownd.Error{Code: "ERR", Text: fmt.Sprintf(format, words...)}
}

func isCancellation(err error) bool {
	return errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
}

func addressOf(request *http.Request) string {
	host, _, err := net.SplitHostPort(request.RemoteAddr)
	if err != nil {
		return request.RemoteAddr
	}
	return host
}

// network returns an address as limits count it: the network of 64 bits of IPv6, as one client has all
// of that, and IPv4 alone, also where it is mapped into IPv6. Other text stays as it is.
func network(address string) string {
	found, err := netip.ParseAddr(address)
	if err != nil {
		return address
	}
	if found = found.WithZone("").Unmap(); found.Is4() {
		return found.String()
	}
	return netip.PrefixFrom(found, 64).Masked().String()
}

// setHeaders sets RateLimit-Policy, RateLimit and, for a refusal, Retry-After.
func setHeaders(header http.Header, answer *countdownd.ThrottleAnswer) {
	var policies, limits []string
	for _, one := range answer.Views {
		name := "default"
		if answer.Raw["views"] != nil {
			name, _, _ = strings.Cut(one.Key, ":")
		}
		policies = append(policies, fmt.Sprintf(`"%s";q=%d;w=%d`, name, one.Limit, seconds(one.RatePeriod)))
		limits = append(limits, fmt.Sprintf(`"%s";r=%d;t=%d`, name, one.Remaining, seconds(one.ResetAfter)))
	}
	header.Set("RateLimit-Policy", strings.Join(policies, ", "))
	header.Set("RateLimit", strings.Join(limits, ", "))
	if answer.IsRefused() {
		header.Set("Retry-After", strconv.FormatInt(seconds(answer.RetryAfter), 10))
	}
}
