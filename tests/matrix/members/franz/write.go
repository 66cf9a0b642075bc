package main

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

// No record is held back here because of its size: what is too large is the server's to say.
const requestBytesMax = 8 << 20

var codecs = map[string]kgo.CompressionCodec{
	"none":   kgo.NoCompression(),
	"gzip":   kgo.GzipCompression(),
	"snappy": kgo.SnappyCompression(),
	"lz4":    kgo.Lz4Compression(),
	"zstd":   kgo.ZstdCompression(),
}

// write is the other program: a writer, as tests/matrix/writers has them.
func write(topic string, settings map[string]string) {
	clients := map[string]*kgo.Client{}
	input := bufio.NewScanner(os.Stdin)
	for input.Scan() {
		words := strings.Fields(input.Text())
		if words[0] == "close" {
			break
		}
		codec := words[1]
		if clients[codec] == nil {
			client, err := kgo.NewClient(
				kgo.SeedBrokers(settings["bootstrap.servers"]),
				kgo.ProducerBatchCompression(codecs[codec]),
				kgo.ProducerBatchMaxBytes(requestBytesMax),
				kgo.RecordPartitioner(kgo.ManualPartitioner()),
			)
			if err != nil {
				fail(err)
			}
			clients[codec] = client
		}
		size, _ := strconv.Atoi(words[2])
		partition, _ := strconv.Atoi(words[3])
		text := fmt.Sprintf("%d bytes that %s compresses. ", size, codec)
		value := []byte(strings.Repeat(text, size/len(text)+1)[:size])
		record := &kgo.Record{Topic: topic, Partition: int32(partition), Value: value}
		produced, err := clients[codec].ProduceSync(context.Background(), record).First()
		if refused := (*kerr.Error)(nil); errors.As(err, &refused) {
			tell("refused", map[string]any{"code": refused.Code, "error": err.Error()})
			continue
		} else if err != nil {
			fail(err)
		}
		digest := sha256.Sum256(value)
		tell("written", map[string]any{
			"partition": fmt.Sprintf("%s-%d", topic, partition),
			"offset":    produced.Offset,
			"sha256":    hex.EncodeToString(digest[:]),
		})
	}
	tell("closed", nil)
}
