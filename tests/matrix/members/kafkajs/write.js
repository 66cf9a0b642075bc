// A writer of kafkajs, as tests/matrix/writers has them.
'use strict'

const readline = require('node:readline')
const { Kafka, logLevel } = require('kafkajs')
const { codecs, sha256 } = require('./codecs')

const [topic, ...pairs] = process.argv.slice(2)
const settings = Object.fromEntries(pairs.map((pair) => [pair.split('=')[0], pair.slice(pair.indexOf('=') + 1)]))
const kafka = new Kafka({ brokers: [settings['bootstrap.servers']], logLevel: logLevel.NOTHING })
const producer = kafka.producer({ idempotent: true })

function tell(event, fields = {}) {
  process.stdout.write(JSON.stringify({ event, at: Date.now(), ...fields }) + '\n')
}

async function write(codec, size, partition) {
  const text = `${size} bytes that ${codec} compresses. `
  const value = Buffer.from(text.repeat(size / text.length + 1).slice(0, size))
  try {
    const messages = [{ value, partition }]
    const [{ baseOffset }] = await producer.send({ topic, messages, compression: codecs[codec] })
    const offset = Number(baseOffset)
    tell('written', { partition: `${topic}-${partition}`, offset, sha256: sha256(value) })
  } catch (error) {
    if (error.code === undefined) throw error
    tell('refused', { code: error.code, error: String(error) })
  }
}

async function run() {
  await producer.connect()
  for await (const line of readline.createInterface({ input: process.stdin })) {
    const [command, codec, size, partition] = line.trim().split(' ')
    if (command === 'close') break
    await write(codec, Number(size), Number(partition))
  }
  await producer.disconnect()
  tell('closed')
  process.exit(0)
}

run().catch((error) => {
  tell('failed', { error: String(error) })
  process.exit(1)
})
