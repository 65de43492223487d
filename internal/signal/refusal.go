package signal

import (
	"errors"
	"reflect"

	"go.opentelemetry.io/collector/consumer/consumererror"
)

// IsPermanent reports whether a batch was refused for good. Where it went to several components at once, it was only if
// each that refused it did so for good: the others want it again.
func IsPermanent(err error) bool {
	for ; err != nil; err = errors.Unwrap(err) {
		if reflect.TypeOf(err) == permanent { // one component says so, whatever its reasons
			return true
		}
		if joined, ok := err.(interface{ Unwrap() []error }); ok {
			return allPermanent(joined.Unwrap())
		}
	}
	return false
}

// permanent is the type of errors that are permanent themselves; consumererror.IsPermanent looks into joined ones too.
var permanent = reflect.TypeOf(consumererror.NewPermanent(nil))

func allPermanent(errs []error) bool {
	for _, err := range errs {
		if !IsPermanent(err) {
			return false
		}
	}
	return len(errs) > 0
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
