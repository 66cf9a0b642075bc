// What of compression kafkajs does not bring along, and digests of values.
'use strict'

const { createHash } = require('node:crypto')
const { CompressionCodecs, CompressionTypes } = require('kafkajs')

CompressionCodecs[CompressionTypes.Snappy] = require('kafkajs-snappy')

const codecs = { none: CompressionTypes.None, gzip: CompressionTypes.GZIP, snappy: CompressionTypes.Snappy }

const sha256 = (value) => createHash('sha256').update(value).digest('hex')

module.exports = { codecs, sha256 }
