// What the host refuses is thrown as the number of its status; the engine wraps that up.
export const ask = (host, ...given) => {
  try {
    return host(...given);
  } catch (error) {
    throw error?.payload ?? error;
  }
};
