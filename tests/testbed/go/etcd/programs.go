//go:build programs

// Package programs only makes etcd part of the module's import graph, so that
// go.sum covers everything it needs.
package programs

import _ "go.etcd.io/etcd/server/v3/etcdmain"
