package signal

import (
	"errors"

	"go.opentelemetry.io/collector/consumer/consumererror"
)

// IsPermanent reports whether a batch was refused for good. Where it went to several components at once, it was only if
// each that refused it did so for good: the others want it again.
func IsPermanent(err error) bool {
	joined, ok := joinedIn(err)
	if !ok {
		return consumererror.IsPermanent(err)
	}
	for _, one := range joined {
		if !IsPermanent(one) {
			return false
		}
	}
	return len(joined) > 0
}

// WithoutPart returns what a refusal in part wraps, or any other error as it is: to a sender that must send all of a batch
// again.
func WithoutPart(err error) error {
	if partial, ok := unjoined[consumererror.Logs](err); ok {
		return partial.Unwrap()
	}
	if partial, ok := unjoined[consumererror.Traces](err); ok {
		return partial.Unwrap()
	}
	return err
}

// unjoined finds an error of that type, as errors.As does, but not among several that were joined: what one of several
// components says of its part of a batch is not true of the others.
func unjoined[E error](err error) (found E, ok bool) {
	for err != nil {
		if found, ok = err.(E); ok {
			return found, true
		}
		err = errors.Unwrap(err)
	}
	return found, false
}

// joinedIn returns the errors that were joined in err.
func joinedIn(err error) ([]error, bool) {
	for err != nil {
		if joined, ok := err.(interface{ Unwrap() []error }); ok {
			return joined.Unwrap(), true
		}
		err = errors.Unwrap(err)
	}
	return nil, false
}
