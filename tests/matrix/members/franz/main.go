// A member of franz-go, classic or (protocol "consumer") KIP-848; with "write" before its arguments, a writer.
package main

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"sort"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

type member struct {
	mu     sync.Mutex
	polled map[string]map[int32]kgo.EpochOffset
	each   bool
	// digests: the SHA-256 of every value is told.
	digests bool
}

var out sync.Mutex

func tell(event string, fields map[string]any) {
	if fields == nil {
		fields = map[string]any{}
	}
	fields["event"], fields["at"] = event, time.Now().UnixMilli()
	line, _ := json.Marshal(fields)
	out.Lock()
	defer out.Unlock()
	fmt.Println(string(line))
}

func fail(err error) {
	tell("failed", map[string]any{"error": err.Error()})
	os.Exit(1)
}

func named(partitions map[string][]int32) []string {
	names := []string{}
	for topic, numbers := range partitions {
		for _, number := range numbers {
			names = append(names, fmt.Sprintf("%s-%d", topic, number))
		}
	}
	sort.Strings(names)
	return names
}

func ms(settings map[string]string, name string, otherwise int) time.Duration {
	if value, err := strconv.Atoi(settings[name]); err == nil {
		otherwise = value
	}
	return time.Duration(otherwise) * time.Millisecond
}

func (m *member) options(topics string, settings map[string]string) []kgo.Opt {
	options := []kgo.Opt{
		kgo.SeedBrokers(settings["bootstrap.servers"]),
		kgo.ConsumerGroup(settings["group.id"]),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.DisableAutoCommit(),
		kgo.SessionTimeout(ms(settings, "session.timeout.ms", 10000)),
		kgo.RebalanceTimeout(ms(settings, "max.poll.interval.ms", 60000)),
		kgo.HeartbeatInterval(ms(settings, "heartbeat.interval.ms", 500)),
		kgo.MetadataMaxAge(ms(settings, "metadata.max.age.ms", 1000)),
		kgo.MetadataMinAge(250 * time.Millisecond),
		kgo.FetchMaxWait(100 * time.Millisecond),
		kgo.BlockRebalanceOnPoll(),
		kgo.OnPartitionsAssigned(func(_ context.Context, _ *kgo.Client, given map[string][]int32) {
			m.moved("assigned", given, false)
		}),
		kgo.OnPartitionsRevoked(func(_ context.Context, _ *kgo.Client, taken map[string][]int32) {
			m.moved("revoked", taken, true)
		}),
		kgo.OnPartitionsLost(func(_ context.Context, _ *kgo.Client, taken map[string][]int32) {
			m.moved("lost", taken, true)
		}),
	}
	if instance := settings["group.instance.id"]; instance != "" {
		options = append(options, kgo.InstanceID(instance))
	}
	if pattern, found := strings.CutPrefix(topics, "pattern:"); found {
		options = append(options, kgo.ConsumeRegex(), kgo.ConsumeTopics("^"+pattern+"$"))
	} else {
		options = append(options, kgo.ConsumeTopics(strings.Split(topics, ",")...))
	}
	switch {
	case settings["group.protocol"] == "consumer":
		opted := context.WithValue(context.Background(), "opt_in_kafka_next_gen_balancer_beta", true)
		options = append(options, kgo.WithContext(opted))
	case settings["partition.assignment.strategy"] == "cooperative-sticky":
		options = append(options, kgo.Balancers(kgo.CooperativeStickyBalancer()))
	default:
		options = append(options, kgo.Balancers(kgo.RangeBalancer()))
	}
	return options
}

func (m *member) moved(event string, partitions map[string][]int32, gone bool) {
	m.mu.Lock()
	if gone {
		for topic, numbers := range partitions {
			for _, number := range numbers {
				delete(m.polled[topic], number)
			}
		}
	}
	m.mu.Unlock()
	if names := named(partitions); len(names) > 0 {
		tell(event, map[string]any{"partitions": names})
	}
}

func (m *member) poll(client *kgo.Client) {
	ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer cancel()
	fetches := client.PollFetches(ctx)
	defer client.AllowRebalance()
	seen := false
	fetches.EachPartition(func(p kgo.FetchTopicPartition) {
		if len(p.Records) == 0 {
			return
		}
		seen = true
		offsets, digests := []int64{}, []string{}
		for _, record := range p.Records {
			offsets = append(offsets, record.Offset)
			if m.digests {
				digest := sha256.Sum256(record.Value)
				digests = append(digests, hex.EncodeToString(digest[:]))
			}
		}
		last := p.Records[len(p.Records)-1]
		m.mu.Lock()
		if m.polled[p.Topic] == nil {
			m.polled[p.Topic] = map[int32]kgo.EpochOffset{}
		}
		m.polled[p.Topic][p.Partition] = kgo.EpochOffset{Epoch: last.LeaderEpoch, Offset: last.Offset + 1}
		m.mu.Unlock()
		name := fmt.Sprintf("%s-%d", p.Topic, p.Partition)
		tell("records", map[string]any{"partition": name, "offsets": offsets, "sha256": digests})
	})
	if seen && m.each {
		m.commit(client)
	}
}

func (m *member) commit(client *kgo.Client) {
	m.mu.Lock()
	offsets, told := map[string]map[int32]kgo.EpochOffset{}, map[string]int64{}
	for topic, partitions := range m.polled {
		for number, at := range partitions {
			if offsets[topic] == nil {
				offsets[topic] = map[int32]kgo.EpochOffset{}
			}
			offsets[topic][number] = at
			told[fmt.Sprintf("%s-%d", topic, number)] = at.Offset
		}
	}
	m.mu.Unlock()
	if len(told) == 0 {
		return
	}
	var refused error
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	client.CommitOffsetsSync(ctx, offsets, func(
		_ *kgo.Client, _ *kmsg.OffsetCommitRequest, answer *kmsg.OffsetCommitResponse, err error,
	) {
		refused = err
		if err != nil || answer == nil {
			return
		}
		for _, topic := range answer.Topics {
			for _, partition := range topic.Partitions {
				if err := kerr.ErrorForCode(partition.ErrorCode); err != nil {
					refused = err
				}
			}
		}
	})
	if refused != nil {
		tell("refused", map[string]any{"error": refused.Error()})
		return
	}
	tell("committed", map[string]any{"offsets": told})
}

// nap does not poll for so long, or until the next command.
func nap(commands chan string, long time.Duration) {
	select {
	case <-time.After(long):
	case command := <-commands:
		if command != "wake" {
			commands <- command
		}
	}
	tell("napped", nil)
}

func main() {
	arguments := os.Args[1:]
	writes := arguments[0] == "write"
	if writes {
		arguments = arguments[1:]
	}
	settings := map[string]string{}
	for _, pair := range arguments[1:] {
		name, value, _ := strings.Cut(pair, "=")
		settings[name] = value
	}
	if writes {
		write(arguments[0], settings)
		return
	}
	m := &member{
		polled:  map[string]map[int32]kgo.EpochOffset{},
		each:    settings["commit.each.poll"] == "true",
		digests: settings["tell.digests"] == "true",
	}
	client, err := kgo.NewClient(m.options(arguments[0], settings)...)
	if err != nil {
		fail(err)
	}
	commands := make(chan string, 16)
	go func() {
		input := bufio.NewScanner(os.Stdin)
		for input.Scan() {
			commands <- strings.TrimSpace(input.Text())
		}
		commands <- "close"
	}()
	for {
		select {
		case command := <-commands:
			word, argument, _ := strings.Cut(command, " ")
			switch word {
			case "commit":
				m.commit(client)
			case "nap":
				nap(commands, ms(map[string]string{"nap": argument}, "nap", 0))
			case "close":
				client.CloseAllowingRebalance()
				tell("closed", nil)
				return
			}
		default:
		}
		m.poll(client)
	}
}
