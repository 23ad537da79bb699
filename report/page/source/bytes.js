// SPDX-License-Identifier: Apache-2.0
// Data of the page as bytes: deflated, in base64, most of it base-128 varints (report/html/varints.h).

export class Reader {
  constructor(bytes) {
    this.bytes = bytes;
    this.at = 0;
  }

  unsigned() {
    let value = 0, factor = 1, byte;
    do {
      byte = this.bytes[this.at++];
      value += (byte & 127) * factor;
      factor *= 128;
    } while (byte > 127);
    return value;
  }

  signed() {
    return unzigzag(this.unsigned());
  }

  /** The header that data begins with: its length and JSON. */
  header() {
    const length = this.unsigned();
    const text = new TextDecoder().decode(this.bytes.subarray(this.at, this.at + length));
    this.at += length;
    return JSON.parse(text);
  }
}

export function unzigzag(v) {
  return v % 2 === 0 ? v / 2 : -(v + 1) / 2;
}

export async function inflate(text) {
  const binary = atob(text.trim());
  const bytes = new Uint8Array(binary.length);
  for (let i = 0; i < binary.length; ++i) bytes[i] = binary.charCodeAt(i);
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}
