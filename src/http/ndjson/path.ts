export const BASE = "/ndjson";
export const STREAM = `${BASE}/stream`;
export const CHAT = `${BASE}/chat`;
export const CHAT_STREAM = `${BASE}/chat/stream`;
export const RESULTS = `${BASE}/results`;
export const CONVERSATION = `${BASE}/conversations/{id}`;
