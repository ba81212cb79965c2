// Adds the words of other languages than English. `lang` says which.
export {}
