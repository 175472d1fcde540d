package redis

import (
	"context"
	"fmt"
	"net"
	"strconv"

	"github.com/redis/rueidis"
)

// masters returns a client of each server that has keys of its own.
func (s *Store) masters(ctx context.Context) ([]rueidis.Client, error) {
	if s.client.Mode() != rueidis.ClientModeCluster {
		return []rueidis.Client{s.client}, nil
	}
	nodes := s.client.Nodes()
	var err error
	for address, node := range nodes {
		var names map[string]bool
		if names, err = masterNames(ctx, address, node); err != nil {
			continue // another one may know
		}
		masters := make([]rueidis.Client, 0, len(names))
		for name := range names {
			if nodes[name] == nil {
				return nil, fmt.Errorf("the cluster is changing: %s is a new master", name)
			}
			masters = append(masters, nodes[name])
		}
		return masters, nil
	}
	return nil, err
}

// masterNames asks node, which is at address, who the masters of the cluster are.
func masterNames(ctx context.Context, address string, node rueidis.Client) (map[string]bool, error) {
	ranges, err := node.Do(ctx, node.B().ClusterSlots().Build()).ToArray()
	if err != nil {
		return nil, err
	}
	names := make(map[string]bool)
	for _, r := range ranges { // first slot, last slot, master, replicas...
		fields, err := r.ToArray()
		if err != nil || len(fields) < 3 {
			return nil, fmt.Errorf("%s answers CLUSTER SLOTS in a way that is not known: %w", address, err)
		}
		master, err := fields[2].ToArray()
		if err != nil || len(master) < 2 {
			return nil, fmt.Errorf("%s answers CLUSTER SLOTS in a way that is not known: %w", address, err)
		}
		host, _ := master[0].ToString()
		port, _ := master[1].AsInt64()
		if host == "" { // the node's own
			host, _, _ = net.SplitHostPort(address)
		}
		names[net.JoinHostPort(host, strconv.FormatInt(port, 10))] = true
	}
	return names, nil
}
