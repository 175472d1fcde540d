package rls

import (
	"errors"
	"io"
	"net/http"

	pb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"github.com/stint-dev/stint/gate"
	"github.com/stint-dev/stint/transport/httpanswer"
)

// JSON returns a handler that answers a RateLimitRequest, written as protobuf's
// JSON, with a RateLimitResponse: 200 if it may go on and 429 if not. It does not
// look at the Content-Type, as the reference implementation does not. A nil o is
// the zero Options.
func JSON(g *gate.Gate, o *Options) http.Handler {
	s := newService(g, o)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodPost {
			w.Header().Set("Allow", http.MethodPost)
			httpanswer.Problem{Status: http.StatusMethodNotAllowed, Detail: r.Method + " is not allowed here."}.Write(w, r)
			return
		}
		answer, err := s.answerJSON(w, r)
		if err != nil {
			httpanswer.Problem{Status: httpStatus(err), Detail: status.Convert(err).Message()}.Write(w, r)
			return
		}
		body, err := protojson.Marshal(answer)
		if err != nil {
			httpanswer.Problem{Status: http.StatusInternalServerError}.Write(w, r)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Cache-Control", "no-store")
		if answer.OverallCode == pb.RateLimitResponse_OVER_LIMIT {
			w.WriteHeader(http.StatusTooManyRequests)
		}
		w.Write(append(body, '\n'))
	})
}

// answerJSON answers r as a call over gRPC is.
func (s *service) answerJSON(w http.ResponseWriter, r *http.Request) (*pb.RateLimitResponse, error) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, MaxMessage))
	if _, tooLarge := errors.AsType[*http.MaxBytesError](err); tooLarge {
		return nil, status.Errorf(codes.ResourceExhausted, "body: more than %d bytes", MaxMessage)
	} else if err != nil {
		return nil, status.Error(codes.InvalidArgument, "body: could not be read to its end")
	}
	var in pb.RateLimitRequest
	if err := protojson.Unmarshal(body, &in); err != nil {
		return nil, status.Errorf(codes.InvalidArgument, "body: %v", err)
	}
	message, err := proto.Marshal(&in)
	if err != nil {
		return nil, status.Errorf(codes.InvalidArgument, "body: %v", err)
	}
	out := new(pb.RateLimitResponse)
	err = s.answer(r.Context(), string(message), func(response []byte) error { return proto.Unmarshal(response, out) })
	return out, err
}

// httpStatus returns the status to answer with in place of a gRPC code.
func httpStatus(err error) int {
	switch status.Code(err) {
	case codes.InvalidArgument:
		return http.StatusBadRequest
	case codes.ResourceExhausted:
		return http.StatusRequestEntityTooLarge
	case codes.Internal:
		return http.StatusInternalServerError
	}
	return http.StatusServiceUnavailable
}
