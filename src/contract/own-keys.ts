/** Reads an own key: ids from outside may be `constructor` or `__proto__`. */
export function own<T>(map: Readonly<Record<string, T>>, key: string): T | undefined {
  return Object.hasOwn(map, key) ? map[key] : undefined;
}

/** Sets an own key: an assignment to `__proto__` would change the prototype. */
export function setOwn<T>(map: Record<string, T>, key: string, value: T): void {
  if (key !== "__proto__") map[key] = value;
  else Object.defineProperty(map, key, { value, writable: true, enumerable: true, configurable: true });
}

/** A copy of the map without the key; the map itself if it has no such key. */
export function without<T>(map: Readonly<Record<string, T>>, key: string): Readonly<Record<string, T>> {
  if (!Object.hasOwn(map, key)) return map;
  const { [key]: _, ...rest } = map;
  return rest;
}

/** The fields without the undefined ones: an optional field is left out, it is never set to undefined. */
export function defined<T extends object>(fields: T): Defined<T> {
  const entries = Object.entries(fields).filter(([, value]) => value !== undefined);
  return Object.fromEntries(entries) as Defined<T>;
}

type Defined<T> = { [K in keyof T as undefined extends T[K] ? never : K]: T[K] } & {
  [K in keyof T as undefined extends T[K] ? K : never]?: Exclude<T[K], undefined>;
};
