// Install gets the server that speaks MongoDB's protocol for the tests. It
// needs mvn and javac.
package main

import (
	"context"
	"fmt"
	"os"

	"github.com/stint-dev/stint/internal/servertest"
)

func main() {
	if err := servertest.InstallMongoDB(context.Background()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
